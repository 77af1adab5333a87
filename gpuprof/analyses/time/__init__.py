"""What the time of devices and host goes to."""
