"""How certain differences are, what makes them, and whether a gate fails."""
