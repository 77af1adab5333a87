"""What several analyses take from a recording: copies, launches, ranges, steps, busy times."""
