"""Faults on purpose: kills, full disks, deleted folders, several writers, and malformed files, for every script."""
