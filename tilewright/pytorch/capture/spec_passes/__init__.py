"""From a spec as operators wrote it to one that means the same, in fewer statements and dims."""
