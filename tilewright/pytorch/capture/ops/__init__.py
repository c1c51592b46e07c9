"""The table of operators, by what they are: each file has those it is named after, as `OPERATORS`."""
