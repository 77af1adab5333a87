"""Device placement of a training step: graphs of several frameworks, cuts and schedules."""
