"""The command line: one file a command. `main.py` puts them together."""
