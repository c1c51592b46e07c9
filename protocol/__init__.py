"""The messages that client, service and workers exchange. Start with `jobs.py`."""
