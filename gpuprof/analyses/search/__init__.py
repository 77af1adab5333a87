"""Where the operations of a training step should run: graphs of any framework, cuts, schedules."""
