"""The tasks that task-router knows, one file each: what its rows are, and what it is judged by."""
