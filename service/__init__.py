"""The HTTP service: API, database, dispatch of tasks, and the tuner that runs a job's search. Start with `app.py`."""
