"""Grading a folder of results by what a problem's expected.json says; `lab/grade.py` is the command."""
