"""What differences come to: how sure, what makes them, and whether a gate fails."""
