"""What the table keeps of pods: moves, nominations and ends."""
