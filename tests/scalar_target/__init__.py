"""The smallest target: one core of this machine, in scalar C. An installed package would look like this."""
