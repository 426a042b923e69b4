"""Measuring: the only package that starts tools and servers."""
