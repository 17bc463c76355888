! SPDX-License-Identifier: Apache-2.0
! fortran08.f90 - calls from Fortran's module mpi_f08, some of which take ways of their own; the last
! line of rank 0 is as that of the other programs.
program fortran08
  use mpi_f08
  implicit none
  integer, parameter :: count = 1000
  integer :: rank, ranks, wrong, taken, index, done, indices(2)
  integer :: mine(count), total(count), other(count)
  type(MPI_Comm) :: comm
  type(MPI_Request) :: requests(2)
  type(MPI_Status) :: status, statuses(2)
  logical :: flag

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  wrong = 0
  taken = 1
  mine = rank + 1
  call MPI_Allreduce(mine, total, count, MPI_INTEGER, MPI_SUM, comm)
  if (any(total /= ranks * (ranks + 1) / 2)) wrong = wrong + 1

  call start()
  call MPI_Wait(requests(1), status)
  flag = .false.
  do while (.not. flag)
    call MPI_Test(requests(2), flag, status)
  end do
  call check()
  call start()
  flag = .false.
  do while (.not. flag)
    call MPI_Request_get_status(requests(1), flag, status)
  end do
  flag = .false.
  do while (.not. flag)
    call MPI_Testall(2, requests, flag, statuses)
  end do
  call check()
  call start()
  do while (requests(1) /= MPI_REQUEST_NULL .or. requests(2) /= MPI_REQUEST_NULL)
    call MPI_Testany(2, requests, index, flag, status)
  end do
  call check()
  call start()
  do while (requests(1) /= MPI_REQUEST_NULL .or. requests(2) /= MPI_REQUEST_NULL)
    call MPI_Testsome(2, requests, done, indices, statuses)
  end do
  call check()

  call MPI_Comm_free(comm)
  mine(1) = wrong
  mine(2) = 0
  call MPI_Allreduce(mine, total, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0) print '(A, I0, A, I0)', 'wrong ', total(1), ', taken ', taken + 1
  call MPI_Finalize()

contains

  subroutine start()
    total = -1
    other = -1
    call MPI_Iallreduce(mine, total, count, MPI_INTEGER, MPI_SUM, comm, requests(1))
    call MPI_Iallreduce(mine, other, count, MPI_INTEGER, MPI_MAX, comm, requests(2))
    taken = taken + 2
  end subroutine

  subroutine check()
    if (any(total /= ranks * (ranks + 1) / 2)) wrong = wrong + 1
    if (any(other /= ranks)) wrong = wrong + 1
  end subroutine
end program
