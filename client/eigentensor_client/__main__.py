from eigentensor_client.cli import main

main()
