! SPDX-License-Identifier: Apache-2.0
! fortran.f90 - calls from Fortran; the last line of rank 0 is as that of the other programs.
program fortran
  use mpi
  implicit none
  integer, parameter :: count = 1000
  integer :: rank, ranks, wrong, taken, comm, error
  integer :: mine(count), total(count)

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, error)
  wrong = 0
  taken = 6
  mine = rank + 1

  call MPI_Allreduce(mine, total, count, MPI_INTEGER, MPI_SUM, comm, error)
  if (any(total /= ranks * (ranks + 1) / 2)) wrong = wrong + 1
  total = mine
  call MPI_Allreduce(MPI_IN_PLACE, total, count, MPI_INTEGER, MPI_MAX, comm, error)
  if (any(total /= ranks)) wrong = wrong + 1
  total = 0
  call MPI_Reduce(mine, total, count, MPI_INTEGER, MPI_SUM, 1, comm, error)
  if (rank == 1 .and. any(total /= ranks * (ranks + 1) / 2)) wrong = wrong + 1
  call MPI_Bcast(total, count, MPI_INTEGER, 1, comm, error)
  if (any(total /= ranks * (ranks + 1) / 2)) wrong = wrong + 1
  call MPI_Barrier(comm, error)
  call MPI_Comm_free(comm, error)
  mine(1) = wrong
  mine(2) = 0
  call MPI_Allreduce(mine, total, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  if (rank == 0) print '(A, I0, A, I0)', 'wrong ', total(1), ', taken ', taken
  call MPI_Finalize(error)
end program
