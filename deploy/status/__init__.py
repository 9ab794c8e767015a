"""`lessons status`: what a store holds and whether all is well."""
