"""What a change to a MySQL-family server really costs, with the evidence, or `cannot tell`."""
