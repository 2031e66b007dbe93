"""The fluid relaxation: what mix of types the optimum buys, and a lower bound."""
