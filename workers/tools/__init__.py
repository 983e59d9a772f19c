"""What seats are given besides the task: skills, passages of documents."""
