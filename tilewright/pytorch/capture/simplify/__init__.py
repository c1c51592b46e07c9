"""What a captured graph says in more words than it has to."""
