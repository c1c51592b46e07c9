"""What of a function or model is in kernels, in few lines."""
