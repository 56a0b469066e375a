#!/usr/bin/env bash
# Gradescope runs this once, when it builds the image.
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends python3 python3-venv
python3 -m venv /autograder/venv
/autograder/venv/bin/pip install --no-cache-dir -r /autograder/source/requirements.txt
# Who runs the code of submissions, if the autograder is to check it.
id student > /dev/null 2>&1 || useradd --system --no-create-home --shell /usr/sbin/nologin student
