"""What packing moves as one: pods that must stay together, and pods that are interchangeable."""
