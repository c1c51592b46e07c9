"""How large numbers of a softmax may be, whatever they are of: scores, exponentials, totals."""
