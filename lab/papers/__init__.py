"""The papers' figures by real processes: the training program, and a module for each group of rows."""
