"""What is looked at before anything is made: may it be, can it be, what will it cost."""
