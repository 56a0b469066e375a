#!/usr/bin/env bash
# Gradescope runs this once, when it builds the image.
set -e
apt-get update
apt-get install -y python3-venv
python3 -m venv /autograder/venv
/autograder/venv/bin/pip install -r /autograder/source/requirements.txt
