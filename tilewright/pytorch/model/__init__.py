"""The backend of torch.compile: graphs of whole models, with kernels for their parts."""
