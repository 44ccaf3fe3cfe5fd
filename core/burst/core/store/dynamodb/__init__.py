"""The store in one DynamoDB table: many machines, nothing running."""
