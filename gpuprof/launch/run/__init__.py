"""One run from the words of a command to a finished folder, whichever recorder is at work."""
