"""What a candidate rests on: checked again from the excerpt alone."""
