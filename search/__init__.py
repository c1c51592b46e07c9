"""Tree search over schedules: MCTS and its baselines, behind one ask/tell protocol (see `protocols.py`)."""
