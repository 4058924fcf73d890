"""Variants written by hand for the dense families of the sweep: each option of the class once."""

WRITTEN = {}
