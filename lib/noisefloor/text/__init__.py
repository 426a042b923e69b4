"""Sizes in words, cells for spreadsheets."""
