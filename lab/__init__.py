"""What both problems share and what is about neither: files, settings, training, statistics, figures."""
