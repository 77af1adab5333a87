"""What a recording is: its tables and their columns, selections, sets of instants."""
