"""Grade a folder of results against what each problem's expected.json asks for: `python -m grading FOLDER`."""
