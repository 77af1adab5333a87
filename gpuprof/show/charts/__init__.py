"""Result tables -> pictures, and pictures drawn: `catalogue` has all charts."""
