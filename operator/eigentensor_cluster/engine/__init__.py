"""What executes programs: slots of this process, or of workers that joined, behind one interface."""
