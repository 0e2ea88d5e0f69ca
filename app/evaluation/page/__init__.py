"""Evaluation page: figures, diagrams and mistakes in one HTML file."""
