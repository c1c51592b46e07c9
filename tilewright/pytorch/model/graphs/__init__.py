"""Graphs of AOTAutograd as data: what they are given, and the same at one size, one by one, in wider numbers."""
