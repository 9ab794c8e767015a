"""The harness's own agent: recalls as the product does, calls tools, asks any model."""
