"""Figures, words, pages, packs."""
