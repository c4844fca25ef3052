"""What people and other programs touch: commands and the tool protocol. They parse, call the runtime's door, print."""
