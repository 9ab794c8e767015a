"""Whether a lesson is put well and harms nobody: rules on its words."""
