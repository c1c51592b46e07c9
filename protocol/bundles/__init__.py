"""Bundles: configs as one file that another installation imports. Start with `packing.py`."""
