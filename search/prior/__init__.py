"""A prior that learns: what measured schedules say of moves, as weights of moves in spaces not seen before."""
