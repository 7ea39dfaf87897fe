"""Plans of compiled steps on NumPy: `executor` chooses the launches, which compute into memory of the plan."""
