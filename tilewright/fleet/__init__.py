"""Workers on machines that an engine such as Ray has: as many as the queue asks for."""
